DECLARE
    written_at CONSTANT timestamptz := clock_timestamp();
    many boolean;
    edits tilewake.edit[];
    -- The one edit, as in tilewake.edit.
    key text;
    existed boolean;
    stands boolean;
    moved boolean;
    relabelled boolean;
    box_before box;
    box_after box;
    point_before point;
    point_after point;
    digest_after bigint;
    -- The version that it gets.
    its_epoch bigint;
    its_version bigint;
    its_base bigint;
    is_again boolean;
BEGIN
    BEGIN
        {one}
        IF many THEN
            edits := ARRAY({edits});
        END IF;
    EXCEPTION WHEN OTHERS THEN
        -- The table is not what it was when this was written, or more was edited at once than fits. The writer must not
        -- fail: nothing can be told of its edits one by one, so the layer is purged.
        PERFORM tilewake.raise_epoch({layer});
        RETURN NULL;
    END;
    IF many THEN
        PERFORM tilewake.record({layer}, {number}, edits);
        RETURN NULL;
    ELSIF (moved OR relabelled) IS NOT TRUE THEN -- null: there was no row at all
        RETURN NULL;
    END IF;

    -- One edit: what tilewake.record does, without building sets.
    SELECT e.epoch INTO its_epoch FROM tilewake.layer_epoch e WHERE e.layer = {layer} ORDER BY e.epoch DESC LIMIT 1;
    INSERT INTO tilewake.feature AS f (layer, feature_id, epoch, version, base_version, deleted, box, digest, xact)
    VALUES ({layer}, key, coalesce(its_epoch, 0), 1 + existed::integer, existed::integer, NOT stands, box_after,
            digest_after, pg_current_xact_id())
    ON CONFLICT (layer, feature_id) DO UPDATE SET
        epoch = greatest(f.epoch, excluded.epoch),
        version = f.version + 1,
        base_version = CASE WHEN excluded.epoch > f.epoch THEN f.version ELSE f.base_version END,
        deleted = excluded.deleted,
        box = excluded.box,
        digest = excluded.digest,
        again = f.xact = excluded.xact,
        xact = excluded.xact
    RETURNING f.epoch, f.version, f.base_version, f.again INTO its_epoch, its_version, its_base, is_again;
    IF is_again THEN
        SELECT s.stands, s.moved, s.relabelled, s.after_box, s.after_point, s.digest
        INTO stands, moved, relabelled, box_after, point_after, digest_after
        FROM tilewake.look({layer}, {number}, ROW(key, existed, stands, moved, relabelled, box_before, box_after,
                                                  point_before, point_after, digest_after)::tilewake.edit) s;
        UPDATE tilewake.feature f SET deleted = NOT stands, box = box_after, digest = digest_after
        WHERE f.layer = {layer} AND f.feature_id = key;
    END IF;
    INSERT INTO tilewake.outbox
        (slot, layer, epoch, feature_id, feature_version, base_version, event_type, changed, before_box, after_box,
         route_point, previous_route_point, traceparent, created_at)
    VALUES (tilewake.slot(written_at), {layer}, its_epoch, key, its_version, its_base,
            tilewake.event_type(existed, stands, moved), tilewake.what_changed(existed, stands, moved, relabelled),
            box_before, box_after, coalesce(point_after, point_before), tilewake.point_left(point_before, point_after),
            tilewake.traceparent(), written_at);
    IF tilewake.wakes() AND NOT pg_try_advisory_xact_lock_shared(1953066085, 1) THEN
        PERFORM tilewake.wake();
    END IF;
    RETURN NULL;
END
