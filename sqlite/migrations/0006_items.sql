-- Every item has its row, which is written with its record. Before, that of an event
-- could come later: those that had not come yet are derived from the log.
INSERT INTO cortex_items (seq, type, run, skill, verb, server, importance, pinned, created, last_use)
SELECT seq, substr(item, 10, instr(substr(item, 10), '/') - 1), run, coalesce(body ->> 'skill', ''), coalesce(body ->> 'verb', ''),
	coalesce(body ->> 'server', ''), body ->> 'importance', body ->> 'pinned', written, written
FROM (
	SELECT seq, run, record -> 'body' AS body, record ->> '$.body.item' AS item,
		unixepoch(substr(record ->> 'at', 1, 19)) * 1000000000 + CAST(substr(record ->> 'at', 21, 9) AS INTEGER) AS written
	FROM (SELECT seq, run, CAST(bytes AS TEXT) AS record FROM cortex_log WHERE kind = 'remember' AND seq NOT IN (SELECT seq FROM cortex_items))
);
