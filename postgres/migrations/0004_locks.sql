-- Takes locks out of their order: without waiting, for whoever has one may wait for another
-- that is held here.
CREATE FUNCTION try_locks(keys bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	key bigint;
BEGIN
	FOREACH key IN ARRAY keys LOOP
		IF NOT pg_try_advisory_xact_lock(key) THEN
			RAISE lock_not_available USING MESSAGE = 'another process has what is to be locked';
		END IF;
	END LOOP;
END $$;
