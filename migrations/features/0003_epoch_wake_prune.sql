-- What writers, the relay and the keeper of the ring call: wake-ups, epochs, pruning.

-- Wake-ups
--
-- A relay that sleeps holds this lock exclusively, with its session; a writer tries to share it until its transaction
-- ends. If that fails, a relay sleeps, and the writer notifies. If it succeeds, no relay can fall asleep before the
-- writer's edit is there to be found. So no wake-up is missed, none is sent to a relay that is awake, and a relay that
-- dies asleep lets go of the lock. Nobody ever waits for it.

-- Off by default where transactions may be prepared: those cannot notify. `ALTER DATABASE … SET tilewake.wake_ups = off`
-- decides otherwise; the relay's poll then finds the edits.
CREATE FUNCTION tilewake.wakes() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(
    nullif(current_setting('tilewake.wake_ups', true), '') = 'on',
    current_setting('max_prepared_transactions') = '0');

-- For a writer, after it has written.
CREATE FUNCTION tilewake.wake() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF tilewake.wakes() AND NOT pg_try_advisory_xact_lock_shared(1953066085, 1)
        -- A full queue would fail the commit: somebody listens and never reads.
        AND pg_notification_queue_usage() < 0.5
    THEN
        PERFORM pg_notify('tilewake_outbox', '');
    END IF;
END
$$;

-- Whether this session has the lock that says a relay sleeps.
CREATE FUNCTION tilewake.is_asleep(pid integer) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 1953066085 AND l.objid = 1 AND l.objsubid = 2
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND l.mode = 'ExclusiveLock' AND l.granted AND l.pid = coalesce($1, l.pid));

-- For a relay that has nothing to do and listens on this very session. What it may do then:
--   asleep  claim once more, and sleep until it is notified: writers notify from now on
--   shared  the same, but another relay's lock is what makes writers notify: look again at every poll, for it may die
--   busy    a writer is under way that will not notify: poll
--   off     wake-ups are off: poll
CREATE FUNCTION tilewake.try_sleep() RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT tilewake.wakes() THEN
        RETURN 'off';
    ELSIF tilewake.is_asleep(pg_backend_pid()) OR pg_try_advisory_lock(1953066085, 1) THEN
        RETURN 'asleep';
    ELSIF tilewake.is_asleep(NULL) THEN
        RETURN 'shared';
    END IF;
    RETURN 'busy';
END
$$;

-- For a relay that has work again.
CREATE FUNCTION tilewake.awake() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF tilewake.is_asleep(pg_backend_pid()) THEN
        PERFORM pg_advisory_unlock(1953066085, 1);
    END IF;
END
$$;

-- Epochs

CREATE SEQUENCE tilewake.epoch_number AS bigint MINVALUE 0 START 0;

-- Raises a layer's epoch; once a transaction, however many of its partitions are truncated in it, unless another
-- transaction has raised it since: edits made in that epoch may be of what is truncated now.
--
-- Epochs are milliseconds since 1970 as one would read them, but only their seconds are the clock's, so that a database
-- restored from a backup does not repeat what it had raised since. The last three digits are counted, so that two
-- transactions that do not see each other's epoch never raise the same one, without waiting for each other.
CREATE FUNCTION tilewake.raise_epoch(of_layer text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written_at CONSTANT timestamptz := clock_timestamp();
    seconds CONSTANT bigint := floor(extract(epoch FROM written_at));
    newest bigint;
    raised bigint;
BEGIN
    SELECT coalesce(max(e.epoch), 0),
           -- Both: transaction ids come again after a dump is restored.
           max(e.epoch) FILTER (WHERE e.xact = pg_current_xact_id() AND e.raised_at = now())
        INTO newest, raised
        FROM tilewake.layer_epoch e WHERE e.layer = of_layer;
    IF raised = newest THEN
        RETURN raised;
    END IF;
    raised := greatest(seconds, newest / 1000) * 1000 + nextval('tilewake.epoch_number') % 1000;
    IF raised <= newest THEN
        raised := raised + 1000;
    END IF;
    INSERT INTO tilewake.layer_epoch (layer, epoch) VALUES (of_layer, raised);
    INSERT INTO tilewake.outbox
        (slot, layer, epoch, feature_id, feature_version, base_version, event_type, changed, traceparent, created_at)
    VALUES (tilewake.slot(written_at), of_layer, raised, '', 0, 0, 'epoch', 'b',
            tilewake.traceparent(), written_at);
    PERFORM tilewake.wake();
    RETURN raised;
END
$$;

-- The trigger of every layer's truncate: there is no transition table, so the edits cannot be told one by one.
CREATE FUNCTION tilewake.truncated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM tilewake.raise_epoch(TG_ARGV[0]);
    RETURN NULL;
END
$$;

-- The ring

-- Empties the leaves whose rows are all published and older than the window, and says of every leaf what became of it:
--   truncated, empty,
--   current       today's, or a neighbour of today's: a clock may be set, and a transaction may live over midnight
--   unpublished   something in it has not been published
--   recent        something in it is younger than the window
--   busy          somebody else held it for longer than we may make others wait
--
-- What is checked, is checked under a lock that lets everybody read and nobody write, and only then is the leaf locked
-- for good, for the moment that emptying takes. Writers use today's leaf and never notice.
CREATE FUNCTION tilewake.prune_outbox(window_ interval) RETURNS TABLE (leaf text, outcome text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    today CONSTANT integer := tilewake.slot(clock_timestamp());
    unpublished boolean;
    newest timestamptz;
    ripe text[] := '{}';
BEGIN
    FOR slot IN 0..8 LOOP
        leaf := 'outbox_' || slot;
        IF (slot - today + 9) % 9 IN (0, 1, 8) THEN
            outcome := 'current';
        ELSIF pg_relation_size(format('tilewake.%I', leaf)) = 0 THEN
            outcome := 'empty';
        ELSE
            BEGIN
                EXECUTE format('LOCK TABLE tilewake.%I IN SHARE ROW EXCLUSIVE MODE', leaf);
                EXECUTE format('SELECT EXISTS (SELECT FROM tilewake.%I WHERE published_at IS NULL)', leaf)
                    INTO unpublished;
                IF unpublished THEN
                    outcome := 'unpublished';
                ELSE
                    EXECUTE format('SELECT max(created_at) FROM tilewake.%I', leaf) INTO newest;
                    outcome := CASE WHEN newest >= clock_timestamp() - window_ THEN 'recent' END;
                END IF;
            EXCEPTION WHEN lock_not_available THEN
                outcome := 'busy';
            END;
        END IF;
        IF outcome IS NULL THEN
            ripe := ripe || leaf;
        ELSE
            RETURN NEXT;
        END IF;
    END LOOP;
    FOREACH leaf IN ARRAY ripe LOOP
        BEGIN
            EXECUTE format('LOCK TABLE tilewake.%I IN ACCESS EXCLUSIVE MODE', leaf);
            EXECUTE format('TRUNCATE tilewake.%I', leaf);
            outcome := 'truncated';
        EXCEPTION WHEN lock_not_available THEN
            outcome := 'busy';
        END;
        RETURN NEXT;
    END LOOP;
    -- Only the highest epoch holds, and is never deleted. Nobody waits for the others.
    DELETE FROM tilewake.layer_epoch e
    WHERE e.raised_at < clock_timestamp() - window_
        AND e.epoch < (SELECT max(n.epoch) FROM tilewake.layer_epoch n WHERE n.layer = e.layer);
END
$$;
