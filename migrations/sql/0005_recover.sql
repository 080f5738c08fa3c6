-- Processes: registration, heartbeat, and what becomes of the dead's leases.

-- Renews a process and with it every lease that it has. False: its row is
-- gone, and all its leases are lost.
CREATE FUNCTION {schema}.heartbeat(p_process uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_now timestamptz := clock_timestamp();
BEGIN
	UPDATE processes p SET expires_at = v_now + p.lease,
		steady_since = CASE WHEN p.expires_at < v_now THEN v_now ELSE p.steady_since END
	WHERE p.id = p_process;
	RETURN FOUND;
END $$;

-- Takes the jobs of processes that stopped renewing: each goes back at once,
-- or to the dead letters when its attempts are spent. Only a process with one
-- unbroken lease of contact may do that: after an outage of the server all
-- rows look expired, and the first one back would take its live peers' jobs.
--
-- p_orphans also looks for leases without a process, which a first pass leaves
-- behind when somebody held them locked. Answers how many processes were
-- found dead, of their jobs how many went back and how many died, and how many
-- leases could not be taken for an error, of which one is told.
CREATE FUNCTION {schema}.recover(p_process uuid, p_orphans boolean, OUT dead integer, OUT requeued integer, OUT buried integer,
	OUT refused integer, OUT reason text)
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '5s'
AS $$
DECLARE
	v_dead  uuid[];
	v_lease record;
	v_jobs  record;
BEGIN
	dead := 0; requeued := 0; buried := 0; refused := 0;
	IF NOT EXISTS (SELECT FROM processes p WHERE p.id = p_process AND p.steady_since <= clock_timestamp() - p.lease) THEN
		RETURN;
	END IF;
	WITH expired AS (
		SELECT p.id FROM processes p WHERE p.expires_at < clock_timestamp() AND p.id <> p_process
		ORDER BY p.id FOR UPDATE SKIP LOCKED
	), gone AS (
		DELETE FROM processes p USING expired e WHERE p.id = e.id RETURNING p.id
	)
	SELECT COALESCE(array_agg(g.id), '{}') INTO v_dead FROM gone g;
	dead := cardinality(v_dead);
	IF dead > 0 OR p_orphans THEN
		DELETE FROM sleepers s WHERE NOT EXISTS (SELECT FROM processes p WHERE p.id = s.process);
	END IF;
	IF dead = 0 AND NOT p_orphans THEN
		RETURN;
	END IF;

	FOR v_lease IN
		SELECT l.token, l.owner FROM leases l
		WHERE l.owner = ANY (v_dead) OR (p_orphans AND NOT EXISTS (SELECT FROM processes p WHERE p.id = l.owner))
		ORDER BY l.token FOR UPDATE SKIP LOCKED
	LOOP
		BEGIN
			SELECT array_agg(l.token) AS tokens, array_agg(u.pos::integer) AS positions, array_agg(u.id) AS ids,
				array_agg(CASE WHEN l.attempts[u.pos] >= j.max_attempts THEN 3 ELSE 7 END::smallint) AS outcomes,
				array_agg('lease_lost'::text) AS codes,
				array_agg('lease lost: the worker process stopped renewing it'::text) AS summaries,
				count(*) FILTER (WHERE l.attempts[u.pos] >= j.max_attempts) AS buried
			INTO v_jobs
			FROM leases l CROSS JOIN LATERAL unnest(l.job_ids, l.days) WITH ORDINALITY u(id, day, pos)
			LEFT JOIN LATERAL (SELECT * FROM jobs j WHERE j.day = u.day AND j.id = u.id OFFSET 0) j ON true
			WHERE l.token = v_lease.token AND get_bit(l.open, u.pos::integer - 1) = 1;
			IF v_jobs.ids IS NULL THEN -- nothing is open in it
				DELETE FROM leases l WHERE l.token = v_lease.token;
				CONTINUE;
			END IF;
			PERFORM settle(v_lease.owner, v_jobs.tokens, v_jobs.positions, v_jobs.ids, v_jobs.outcomes, '{}', v_jobs.codes, v_jobs.summaries, true);
			buried := buried + v_jobs.buried;
			requeued := requeued + cardinality(v_jobs.ids) - v_jobs.buried;
		EXCEPTION WHEN OTHERS THEN
			-- One bad lease must not keep the others: it stays, and the next
			-- pass over orphans meets it again.
			refused := refused + 1;
			reason := format('lease %s: %s', v_lease.token, SQLERRM);
		END;
	END LOOP;
	IF requeued > 0 OR buried > 0 THEN -- a dead letter may have been in others' way
		PERFORM pg_notify({channel}, '');
	END IF;
END $$;
