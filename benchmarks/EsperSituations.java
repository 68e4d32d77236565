import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.sun.management.OperatingSystemMXBean;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Situations of cars in Esper, see esper.py: arguments are EPL, rows, answer and rounds. */
public class EsperSituations {
    private static final String[] BOUNDS = {"car", "a_s", "a_e", "b_s", "b_e", "c_s", "c_e"};

    public static void main(String[] arguments) throws Exception {
        String epl = Files.readString(Path.of(arguments[0]));
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(arguments[1])));
        bytes.order(ByteOrder.LITTLE_ENDIAN);
        Object[][] rows = new Object[bytes.remaining() / 32][];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = new Object[] {
                bytes.getLong(), bytes.getLong(), bytes.getDouble(), bytes.getDouble()
            };
        }
        Configuration configuration = new Configuration();
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        configuration.getCommon().addEventType(
            "Car",
            new String[] {"t", "car", "speed", "accel"},
            new Object[] {long.class, long.class, double.class, double.class});
        EPCompiled compiled =
            EPCompilerProvider.getCompiler().compile(epl, new CompilerArguments(configuration));
        OperatingSystemMXBean system =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        StringBuilder seconds = new StringBuilder();
        List<long[]> found = new ArrayList<>();
        for (int round = 0; round < Integer.parseInt(arguments[3]); round++) {
            found.clear();
            EPRuntime runtime = EPRuntimeProvider.getRuntime("round " + round, configuration);
            EPDeployment deployed = runtime.getDeploymentService().deploy(compiled);
            runtime.getDeploymentService()
                .getStatement(deployed.getDeploymentId(), "matches")
                .addListener((added, removed, statement, from) -> {
                    for (var event : added) {
                        long[] row = new long[BOUNDS.length];
                        for (int k = 0; k < row.length; k++) {
                            row[k] = (Long) event.get(BOUNDS[k]);
                        }
                        found.add(row);
                    }
                });
            long began = System.nanoTime(), cpu = system.getProcessCpuTime();
            for (Object[] row : rows) {
                runtime.getEventService().sendEventObjectArray(row, "Car");
            }
            double wall = (System.nanoTime() - began) / 1e9;
            double spent = (system.getProcessCpuTime() - cpu) / 1e9;
            seconds.append(round == 0 ? "" : ",").append("[" + wall + "," + spent + "]");
            runtime.destroy();
        }
        try (PrintWriter out = new PrintWriter(arguments[2])) {
            for (long[] row : found) {
                StringBuilder line = new StringBuilder();
                for (long value : row) {
                    line.append(line.length() == 0 ? "" : ",").append(value);
                }
                out.println(line);
            }
        }
        System.out.println("[" + seconds + "]");
    }
}
