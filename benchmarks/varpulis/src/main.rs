//! Counts trends with Varpulis' Hamlet, as benchmarks/trends.py does with Chronicle.
//!
//! usage: varpulis-trends WINDOWS QUERIES BURST
//!
//! A window is an A of each query, A0 to A(n-1), and a burst of B; query i counts `Ai B+` in each.
//! Windows are flushed one after the other. Prints seconds, events and the sum of all counts.

use std::sync::Arc;
use std::time::Instant;

use smallvec::smallvec;
use varpulis_core::Event;
use varpulis_hamlet::greta::GretaAggregate;
use varpulis_hamlet::template::TemplateBuilder;
use varpulis_hamlet::{HamletAggregator, HamletConfig, QueryRegistration};

fn main() {
    let given: Vec<usize> = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("a number"))
        .collect();
    let &[windows, queries, burst] = given.as_slice() else {
        panic!("usage: varpulis-trends WINDOWS QUERIES BURST");
    };
    let mut builder = TemplateBuilder::new();
    let names: Vec<String> = (0..queries).map(|query| format!("A{query}")).collect();
    for (query, name) in names.iter().enumerate() {
        let first = builder.num_states() as u16;
        builder.add_sequence(query as u32, &[name, "B"]);
        builder.add_kleene(query as u32, "B", first + 1);
    }
    let template = builder.build();
    let types: Vec<u16> = names
        .iter()
        .map(|name| template.type_index(name).expect("a type"))
        .collect();
    let b = template.type_index("B").expect("a type");
    let mut hamlet = HamletAggregator::new(HamletConfig::default(), template);
    for (query, &first) in types.iter().enumerate() {
        hamlet.register_query(QueryRegistration {
            id: query as u32,
            event_types: smallvec![first, b],
            kleene_types: smallvec![b],
            aggregate: GretaAggregate::CountTrends,
        });
    }
    // Events of one window are made before the clock starts; each window has the same ones.
    let mut events: Vec<_> = names
        .iter()
        .map(|name| Arc::new(Event::new(name.as_str())))
        .collect();
    events.extend((0..burst).map(|_| Arc::new(Event::new("B"))));
    let started = Instant::now();
    let mut total: u128 = 0;
    for _ in 0..windows {
        for event in &events {
            hamlet.process(Arc::clone(event));
        }
        total += hamlet
            .flush()
            .iter()
            .map(|result| u128::from(result.trend_count))
            .sum::<u128>();
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{{\"seconds\": {seconds}, \"events\": {}, \"trends\": \"{total}\"}}",
        windows * events.len()
    );
}
