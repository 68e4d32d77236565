-- Everyday questions of six trades, as an analyst types them. tests/golden/test_ordinary_questions.py
-- asks each of them; the streams and small tables they are about are made there. Not answered: the one
-- that says so, since DuckDB combines GROUP BY ALL with no QUALIFY.

-- crime analyst: reports by hour of the day
SELECT hour(ts) AS hour, COUNT(*) AS n FROM crimes GROUP BY ALL ORDER BY hour;
-- crime analyst: the three commonest types in each district (not answered)
SELECT district, primary_type, COUNT(*) AS n FROM crimes GROUP BY ALL
QUALIFY ROW_NUMBER() OVER (PARTITION BY district ORDER BY COUNT(*) DESC, primary_type) <= 3 ORDER BY district, n DESC, primary_type;
-- crime analyst: the same, with the columns of GROUP BY written out
SELECT district, primary_type, COUNT(*) AS n FROM crimes GROUP BY district, primary_type
QUALIFY ROW_NUMBER() OVER (PARTITION BY district ORDER BY COUNT(*) DESC, primary_type) <= 3 ORDER BY district, n DESC, primary_type;
-- crime analyst: days since the burglary before in the same neighborhood
SELECT neighborhood, ts, ts - LAG(ts) OVER (PARTITION BY neighborhood ORDER BY ts, arrival_no) AS since
FROM crimes WHERE primary_type = 'BURGLARY' ORDER BY ts, arrival_no LIMIT 20;
-- crime analyst: robberies with a car stolen within half an hour in the same district, with the neighborhood's name
SELECT n.name, m.robbery, m.theft FROM crimes MATCH_RECOGNIZE (
  PARTITION BY district ORDER BY ts MEASURES R.ts AS robbery, M.ts AS theft, R.neighborhood AS neighborhood
  PATTERN ( R Z*? M ) WITHIN INTERVAL '30' MINUTE
  DEFINE R AS primary_type = 'ROBBERY', M AS primary_type = 'MOTOR VEHICLE THEFT'
) m JOIN neighborhoods n USING (neighborhood) ORDER BY m.robbery, m.theft;
-- crime analyst: which types rose from January to February
SELECT primary_type, COUNT(*) FILTER (WHERE month(ts) = 1) AS january, COUNT(*) FILTER (WHERE month(ts) = 2) AS february
FROM crimes GROUP BY primary_type HAVING february > january ORDER BY primary_type;
-- crime analyst: share of each type in percent
SELECT primary_type, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 2) AS percent FROM crimes GROUP BY primary_type ORDER BY percent DESC, primary_type;
-- crime analyst: reports per 1,000 inhabitants
SELECT n.name, 1000.0 * COUNT(*) / ANY_VALUE(n.population) AS rate FROM crimes c JOIN neighborhoods n ON c.neighborhood = n.neighborhood GROUP BY n.name ORDER BY rate DESC;
-- crime analyst: neighborhoods without an arson
SELECT DISTINCT neighborhood FROM crimes EXCEPT SELECT neighborhood FROM crimes WHERE primary_type = 'ARSON' ORDER BY 1;
-- crime analyst: everything that happened in a neighborhood within a day after a homicide there
SELECT COUNT(*) AS n FROM crimes c WHERE EXISTS (SELECT 1 FROM crimes h WHERE h.primary_type = 'HOMICIDE'
  AND h.neighborhood = c.neighborhood AND c.ts > h.ts AND c.ts <= h.ts + INTERVAL 1 DAY);
-- crime analyst: totals by district and type, with subtotals
SELECT district, primary_type, COUNT(*) AS n FROM crimes WHERE district IN (1, 2) GROUP BY ROLLUP (district, primary_type) ORDER BY ALL;
-- crime analyst: firearm offences, whatever they are called
SELECT description, COUNT(*) AS n FROM crimes WHERE description ILIKE '%firearm%' OR regexp_matches(description, 'GUN|PISTOL') GROUP BY description ORDER BY n DESC, description LIMIT 5;
-- crime analyst: how many series of three burglaries in a neighborhood within two days, by weekday of the first
SELECT strftime(began, '%A') AS weekday, COUNT(*) AS series FROM crimes MATCH_RECOGNIZE (
  PARTITION BY neighborhood ORDER BY ts MEASURES FIRST(ts) AS began
  PATTERN ( B B B ) SEMANTICS SKIP TILL NEXT WITHIN 2 DAYS DEFINE B AS primary_type = 'BURGLARY'
) GROUP BY weekday ORDER BY series DESC, weekday;

-- trader: previous price and change in percent
SELECT ts, symbol, price, 100 * (price / LAG(price) OVER w - 1) AS change FROM ticks WINDOW w AS (PARTITION BY symbol ORDER BY ts) ORDER BY ts, symbol;
-- trader: running volume of the day
SELECT ts, symbol, SUM(volume) OVER (PARTITION BY symbol, ts::DATE ORDER BY ts) AS so_far FROM ticks ORDER BY ts, symbol;
-- trader: bars of an hour
SELECT symbol, window_start, FIRST(price) AS open, MAX(price) AS high, MIN(price) AS low, LAST(price) AS close, SUM(volume) AS volume
FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), 1 HOUR, TIMESTAMP '2024-03-01')) GROUP BY symbol, window_start;
-- trader: bars of an hour and the change against the bar before
WITH bars AS (
  SELECT symbol, window_start, LAST(price) AS close FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), 1 HOUR, TIMESTAMP '2024-03-01')) GROUP BY symbol, window_start
) SELECT symbol, window_start, close, close - LAG(close) OVER (PARTITION BY symbol ORDER BY window_start) AS change FROM bars ORDER BY symbol, window_start;
-- trader: volume-weighted mean price by sector
SELECT c.sector, SUM(t.price * t.volume) / SUM(t.volume) AS vwap FROM ticks t JOIN companies c ON c.symbol = t.symbol GROUP BY c.sector ORDER BY c.sector;
-- trader: symbols that fell three times in a row, with how far
SELECT symbol, MAX(top - bottom) AS worst, COUNT(*) AS n FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts MEASURES FIRST(price) AS top, LAST(price) AS bottom
  PATTERN ( S D D D ) DEFINE D AS price < PREV(price)
) WHERE top - bottom > 1 GROUP BY symbol ORDER BY symbol;
-- trader: the ticks inside such falls, ranked by volume
SELECT *, RANK() OVER (PARTITION BY symbol ORDER BY volume DESC) AS place FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts MEASURES MATCH_NUMBER() AS no ALL ROWS PER MATCH
  PATTERN ( S D D D ) DEFINE D AS price < PREV(price)
) ORDER BY symbol, place, ts;
-- trader: median and 95th percentile of volume
SELECT symbol, MEDIAN(volume) AS middle, PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY volume) AS high FROM ticks GROUP BY symbol ORDER BY symbol;
-- trader: correlation of price and volume
SELECT symbol, ROUND(CORR(price, volume), 6) AS r FROM ticks GROUP BY symbol ORDER BY symbol;
-- trader: when each symbol was dearest
SELECT symbol, MAX_BY(ts, price) AS at, MAX(price) AS price FROM ticks GROUP BY symbol ORDER BY symbol;
-- trader: mean prices of two symbols side by side, by the hour
SELECT hour, a.mean AS aaa, b.mean AS bbb FROM (SELECT date_trunc('hour', ts) AS hour, AVG(price) AS mean FROM ticks WHERE symbol = 'AAA' GROUP BY hour) a
FULL JOIN (SELECT date_trunc('hour', ts) AS hour, AVG(price) AS mean FROM ticks WHERE symbol = 'BBB' GROUP BY hour) b USING (hour) ORDER BY hour;
-- trader: moving mean of five ticks
SELECT ts, symbol, AVG(price) OVER (PARTITION BY symbol ORDER BY ts ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS mean FROM ticks ORDER BY symbol, ts;
-- trader: the last price of BBB at each tick of AAA, where it was dearer than on average
SELECT * FROM (SELECT a.ts, a.price, b.price AS other FROM ticks a ASOF JOIN (SELECT * FROM ticks WHERE symbol = 'BBB') b ON a.ts >= b.ts WHERE a.symbol = 'AAA')
WHERE other > (SELECT AVG(price) FROM ticks WHERE symbol = 'BBB') ORDER BY ts;

-- aviation: flights by operator
SELECT a.operator, COUNT(DISTINCT f.icao24) AS aircraft, COUNT(*) AS positions FROM flights f LEFT JOIN aircraft a ON a.icao24 = f.icao24 GROUP BY a.operator ORDER BY 1;
-- aviation: go-arounds: down below 2,000 feet, then up by more than 1,000
SELECT icao24, lowest, climbed_to FROM flights MATCH_RECOGNIZE (
  PARTITION BY icao24 ORDER BY ts MEASURES LAST(D.altitude) AS lowest, LAST(U.altitude) AS climbed_to
  PATTERN ( D+ U+ ) WITHIN 20 MINUTES
  DEFINE D AS altitude < 2000 AND vertical_rate < 0, U AS vertical_rate > 0
) WHERE climbed_to - lowest > 1000 ORDER BY icao24;
-- aviation: operators of aircraft that went around
SELECT DISTINCT operator FROM aircraft WHERE icao24 IN (SELECT icao24 FROM flights MATCH_RECOGNIZE (
  PARTITION BY icao24 ORDER BY ts MEASURES LAST(U.altitude) AS up PATTERN ( D+ U+ )
  DEFINE D AS altitude < 2000 AND vertical_rate < 0, U AS vertical_rate > 0
)) ORDER BY operator;
-- aviation: highest climb rate with the callsign that had it
SELECT MAX(vertical_rate) AS rate, ARG_MAX(callsign, vertical_rate) AS callsign FROM flights;
-- aviation: gaps of more than ten minutes in the track of an aircraft
SELECT icao24, ts, gap FROM (SELECT icao24, ts, ts - LAG(ts) OVER (PARTITION BY icao24 ORDER BY ts) AS gap FROM flights) WHERE gap > INTERVAL 10 MINUTE ORDER BY ts, icao24;
-- aviation: altitude bands of 5,000 feet
SELECT (altitude // 5000) * 5000 AS band, COUNT(*) AS n FROM flights GROUP BY band ORDER BY band;
-- aviation: callsigns of a company, and what comes behind the letters
SELECT DISTINCT callsign, regexp_extract(callsign, '[0-9]+')::INTEGER AS number FROM flights WHERE callsign SIMILAR TO 'DL[A-Z][0-9]+' ORDER BY callsign;
-- aviation: the first and the last position of each aircraft
SELECT icao24, MIN(ts) AS first, MAX(ts) AS last, strftime(MAX(ts), '%H:%M') AS clock FROM flights GROUP BY icao24 ORDER BY icao24;
-- aviation: aircraft that were seen and are not in the register
SELECT f.icao24 FROM flights f ANTI JOIN aircraft a ON a.icao24 = f.icao24 GROUP BY f.icao24 ORDER BY f.icao24;
-- aviation: pairs of aircraft within 1,000 feet of each other, seen within a minute
SELECT a, b, COUNT(*) AS times FROM (
  SELECT x.icao24 AS a, y.icao24 AS b FROM flights x JOIN flights y WITHIN 1 MINUTE ON x.icao24 < y.icao24 AND abs(x.altitude - y.altitude) < 1000
) GROUP BY ALL ORDER BY times DESC, a, b LIMIT 10;

-- sensor engineer: readings above the machine's limit
SELECT r.ts, r.machine, r.temperature, m.limit_c FROM readings r JOIN machines m ON m.machine = r.machine WHERE r.temperature > m.limit_c ORDER BY r.ts, r.machine;
-- sensor engineer: how long a machine was in each state before it failed
SELECT machine, began, failed, failed - began AS took FROM readings MATCH_RECOGNIZE (
  PARTITION BY machine ORDER BY ts MEASURES FIRST(H.ts) AS began, F.ts AS failed
  PATTERN ( H+ F ) DEFINE H AS state = 'hot', F AS state = 'failed'
) ORDER BY failed, machine;
-- sensor engineer: machines by number of failures, with their hall, none counted as zero
SELECT m.machine, m.hall, COUNT(f.failed) AS failures FROM machines m LEFT JOIN (SELECT * FROM readings MATCH_RECOGNIZE (
  PARTITION BY machine ORDER BY ts MEASURES F.ts AS failed PATTERN ( H+ F ) DEFINE H AS state = 'hot', F AS state = 'failed'
)) f ON f.machine = m.machine GROUP BY ALL ORDER BY m.machine;
-- sensor engineer: z-score of temperature within its machine
SELECT ts, machine, ROUND((temperature - AVG(temperature) OVER w) / STDDEV_SAMP(temperature) OVER w, 3) AS z FROM readings WINDOW w AS (PARTITION BY machine) ORDER BY abs(z) DESC, ts, machine LIMIT 5;
-- sensor engineer: states in order, as one text per machine
SELECT machine, STRING_AGG(state, ' > ' ORDER BY ts) AS states FROM (
  SELECT machine, ts, state, LAG(state) OVER (PARTITION BY machine ORDER BY ts) AS before FROM readings
) WHERE before IS DISTINCT FROM state GROUP BY machine ORDER BY machine;
-- sensor engineer: hours in which no reading came
SELECT hour FROM range(TIMESTAMP '2024-03-01', TIMESTAMP '2024-03-02', INTERVAL 1 HOUR) AS h(hour)
WHERE hour NOT IN (SELECT date_trunc('hour', ts) FROM readings) ORDER BY hour;
-- sensor engineer: ten-minute means, and the largest step between them
WITH means AS (SELECT machine, window_start, AVG(temperature) AS mean FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), 10 MINUTES)) GROUP BY machine, window_start),
steps AS (SELECT *, mean - LAG(mean) OVER (PARTITION BY machine ORDER BY window_start) AS step FROM means)
SELECT machine, MAX_BY(window_start, abs(step)) AS at FROM steps WHERE step IS NOT NULL GROUP BY machine ORDER BY machine;
-- sensor engineer: temperature in classes
SELECT CASE WHEN temperature < 60 THEN 'cold' WHEN temperature < 80 THEN 'warm' ELSE 'hot' END AS class, COUNT(*) AS n FROM readings GROUP BY 1 ORDER BY 1;
-- sensor engineer: slope of temperature against vibration
SELECT machine, ROUND(REGR_SLOPE(temperature, vibration), 4) AS slope FROM readings GROUP BY machine ORDER BY machine;
-- sensor engineer: quartiles of vibration
SELECT machine, quantile_cont(vibration, [0.25, 0.5, 0.75]) AS quartiles FROM readings GROUP BY machine ORDER BY machine;
-- sensor engineer: the latest reading of each machine
SELECT DISTINCT ON (machine) machine, ts, temperature FROM readings ORDER BY machine, ts DESC;
-- sensor engineer: everything but vibration, temperature in Fahrenheit
SELECT * EXCLUDE (vibration) REPLACE (temperature * 1.8 + 32 AS temperature) FROM readings WHERE state = 'failed' ORDER BY ts;

-- web analyst: visitors a day
SELECT ts::DATE AS day, COUNT(DISTINCT user_id) AS visitors FROM clicks GROUP BY day ORDER BY day;
-- web analyst: conversion of the funnel
WITH done AS (SELECT user_id FROM clicks MATCH_RECOGNIZE (
  PARTITION BY user_id ORDER BY ts MEASURES P.ts AS bought
  PATTERN ( V C P ) SEMANTICS SKIP TILL NEXT WITHIN 1 HOUR
  DEFINE V AS action = 'view', C AS action = 'cart', P AS action = 'pay'))
SELECT (SELECT COUNT(DISTINCT user_id) FROM done) * 1.0 / COUNT(DISTINCT user_id) AS conversion FROM clicks;
-- web analyst: carts that were left, by plan of the user
SELECT u.plan, COUNT(*) AS n FROM clicks c JOIN users u USING (user_id) WHERE c.action = 'cart'
AND c.user_id NOT IN (SELECT user_id FROM clicks WHERE action = 'pay') GROUP BY u.plan ORDER BY u.plan;
-- web analyst: number of clicks in each session, sessions by half an hour of silence
SELECT user_id, window_start, COUNT(*) AS n FROM TABLE(SESSION(TABLE clicks PARTITION BY user_id, DESCRIPTOR(ts), 30 MINUTES)) GROUP BY window_start, user_id;
-- web analyst: median clicks of a session
SELECT MEDIAN(n) AS middle FROM (SELECT window_start, user_id, COUNT(*) AS n FROM TABLE(SESSION(TABLE clicks PARTITION BY user_id, DESCRIPTOR(ts), 30 MINUTES)) GROUP BY window_start, user_id);
-- web analyst: pages in the order they are seen, the commonest first
SELECT list_aggregate(pages[:2], 'string_agg', ' ') AS path, COUNT(*) AS n FROM (SELECT user_id, ARRAY_AGG(page ORDER BY ts) AS pages FROM clicks GROUP BY user_id) GROUP BY path ORDER BY n DESC, path LIMIT 5;
-- web analyst: the next page after the search page
SELECT next, COUNT(*) AS n FROM (SELECT page, LEAD(page) OVER (PARTITION BY user_id ORDER BY ts) AS next FROM clicks) WHERE page = '/search' GROUP BY next ORDER BY n DESC, next;
-- web analyst: domain of the referrer
SELECT split_part(split_part(referrer, '://', 2), '/', 1) AS domain, COUNT(*) AS n FROM clicks WHERE referrer IS NOT NULL GROUP BY domain ORDER BY n DESC, domain;
-- web analyst: users of last week who came again
SELECT user_id FROM clicks WHERE ts < TIMESTAMP '2024-03-02' INTERSECT SELECT user_id FROM clicks WHERE ts >= TIMESTAMP '2024-03-02' ORDER BY user_id;
-- web analyst: share of actions, as columns
SELECT page, SUM(CASE WHEN action = 'view' THEN 1 ELSE 0 END) AS views, COUNT_IF(action = 'cart') AS carts FROM clicks GROUP BY page ORDER BY page;
-- web analyst: cumulative new users by day
SELECT day, COUNT(*) AS new, SUM(COUNT(*)) OVER (ORDER BY day) AS so_far FROM (SELECT user_id, MIN(ts)::DATE AS day FROM clicks GROUP BY user_id) GROUP BY day ORDER BY day;

-- fraud: cards used in two countries within an hour
SELECT account, first_country, second_country, second_at FROM payments MATCH_RECOGNIZE (
  PARTITION BY account ORDER BY ts MEASURES A.country AS first_country, B.country AS second_country, B.ts AS second_at
  AFTER MATCH SKIP TO NEXT ROW PATTERN ( A B ) WITHIN 1 HOUR DEFINE B AS country <> A.country
) ORDER BY second_at, account;
-- fraud: their owners, and whether the first payment was at home
SELECT o.owner, m.first_country = o.home_country AS at_home FROM payments MATCH_RECOGNIZE (
  PARTITION BY account ORDER BY ts MEASURES A.country AS first_country AFTER MATCH SKIP TO NEXT ROW
  PATTERN ( A B ) WITHIN 1 HOUR DEFINE B AS country <> A.country
) AS m JOIN accounts o ON o.account = m.account ORDER BY o.owner, at_home;
-- fraud: payments more than three times the account's median
SELECT p.* FROM payments p JOIN (SELECT account, MEDIAN(amount) AS middle FROM payments GROUP BY account) m USING (account) WHERE p.amount > 3 * m.middle ORDER BY p.ts, p.account;
-- fraud: small payment, then a large one at the same merchant
SELECT merchant, COUNT(*) AS n, STRING_AGG(DISTINCT account, ', ' ORDER BY account) AS accounts FROM payments MATCH_RECOGNIZE (
  PARTITION BY merchant ORDER BY ts MEASURES S.account AS account
  PATTERN ( S L ) DEFINE S AS amount < 2, L AS amount > 500 AND account = S.account
) GROUP BY merchant ORDER BY n DESC, merchant;
-- fraud: accounts on a list
SELECT account, SUM(amount) AS total FROM payments WHERE account IN $suspects GROUP BY account ORDER BY account;
-- fraud: more than three payments in ten minutes
SELECT DISTINCT account FROM (SELECT account, COUNT(*) OVER (PARTITION BY account ORDER BY ts RANGE BETWEEN INTERVAL 10 MINUTE PRECEDING AND CURRENT ROW) AS n FROM payments) WHERE n > 3 ORDER BY account;
-- fraud: first payments to a merchant
SELECT * FROM payments QUALIFY ROW_NUMBER() OVER (PARTITION BY account, merchant ORDER BY ts) = 1 AND amount > :least ORDER BY ts, account;
-- fraud: round amounts
SELECT COUNT(*) FILTER (WHERE amount % 100 = 0) AS round, COUNT(*) AS n FROM payments;
-- fraud: payments and refunds in one list
SELECT ts, account, amount, 'payment' AS what FROM payments WHERE amount > 0 UNION ALL SELECT ts, account, -amount, 'refund' FROM payments WHERE amount < 0 ORDER BY ts, account;
-- fraud: chains of accounts that pay each other, up to three steps
WITH RECURSIVE chain AS (
  SELECT account AS origin, merchant AS reached, 1 AS steps FROM payments WHERE kind = 'transfer'
  UNION SELECT c.origin, p.merchant, c.steps + 1 FROM chain c JOIN payments p ON p.account = c.reached AND p.kind = 'transfer' WHERE c.steps < 3
) SELECT origin, reached, MIN(steps) AS steps FROM chain GROUP BY ALL ORDER BY ALL;
-- fraud: digits of amounts (Benford)
SELECT left(CAST(CAST(abs(amount) AS BIGINT) AS VARCHAR), 1) AS digit, COUNT(*) AS n FROM payments WHERE abs(amount) >= 1 GROUP BY digit ORDER BY digit;
