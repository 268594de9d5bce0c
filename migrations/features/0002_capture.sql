-- What the capture functions of all layers share: from geometries to boxes and points, from edits to versions and outbox
-- rows. The functions that find the edits in a layer's transition tables are made by `layer add`.

-- The leaf of a moment: its UTC day, in a ring of the window's seven days and two more.
-- STABLE, as `extract` is, or it would not be inlined and cost more than the row's insert.
CREATE FUNCTION tilewake.slot(at timestamptz) RETURNS smallint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (floor(extract(epoch FROM at) / 86400)::bigint % 9)::smallint;

-- The trace that the writer belongs to, if it said so in the form of W3C Trace Context, version 00.
CREATE FUNCTION tilewake.traceparent() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN substring(current_setting('tilewake.traceparent', true) FROM '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$');

-- The application states what its edits mean, for the rest of the transaction; recorded as their event type.
CREATE FUNCTION tilewake.intent(event_type text) RETURNS void
LANGUAGE sql VOLATILE
AS $$ SELECT pg_catalog.set_config('tilewake.intent', coalesce(pg_catalog.left(event_type, 63), ''), true) $$;

-- Geometry
--
-- These never raise: a writer must not fail because a geometry is odd. They are made in a block because they name
-- PostGIS' functions with its schema, whichever that is: a search path would have to be set at every call.

DO $do$
DECLARE
    postgis text := (
        SELECT quote_ident(n.nspname)
        FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'postgis');
BEGIN
    -- In EPSG:4326; NULL for what cannot be transformed: beyond the projection's domain, of an unknown SRID or none.
    EXECUTE replace($sql$
CREATE FUNCTION tilewake.lonlat(geom @postgis@.geometry) RETURNS @postgis@.geometry
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $f$
BEGIN
    IF @postgis@.ST_SRID(geom) = 4326 THEN
        RETURN geom;
    END IF;
    RETURN @postgis@.ST_Transform(geom, 4326);
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$f$;
$sql$, '@postgis@', postgis);

    -- Where the geometry is, in EPSG:4326; NULL for an empty one, and the whole world for what has no better box.
    EXECUTE replace($sql$
CREATE FUNCTION tilewake.odd_box_of(geom @postgis@.geometry) RETURNS box
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $f$
DECLARE
    radius CONSTANT float8 := 6378137;
    -- Wider than any rounding of the formula, narrower than anything that is drawn.
    margin CONSTANT float8 := 1e-9;
    world CONSTANT box := '(180,90),(-180,-90)';
    srid integer := @postgis@.ST_SRID(geom);
    b box := @postgis@.box(geom);
BEGIN
    IF b IS NULL THEN -- empty
        RETURN NULL;
    END IF;
    IF srid = 3857 THEN
        IF NOT ((b[1])[0] >= -1e8 AND (b[0])[0] <= 1e8 AND (b[1])[1] >= -1e9 AND (b[0])[1] <= 1e9) THEN
            RETURN world;
        END IF;
        -- Both axes grow with their own coordinate alone: here the box of the geometry is the geometry of the box.
        RETURN box(
            point(degrees((b[1])[0] / radius) - margin,
                  greatest(degrees(2 * atan(exp((b[1])[1] / radius))) - 90 - margin, -90)),
            point(degrees((b[0])[0] / radius) + margin,
                  least(degrees(2 * atan(exp((b[0])[1] / radius))) - 90 + margin, 90)));
    END IF;
    IF srid <> 4326 THEN
        b := @postgis@.box(tilewake.lonlat(geom));
    END IF;
    -- False for what is not a number, too: that is more than any number.
    IF (b[1])[0] >= -1000 AND (b[0])[0] <= 1000 AND (b[1])[1] >= -90 AND (b[0])[1] <= 90 THEN
        RETURN b;
    END IF;
    RETURN world;
END
$f$;
$sql$, '@postgis@', postgis);

    -- A point of the geometry, in EPSG:4326; NULL for one that has none, or none on the globe.
    EXECUTE replace($sql$
CREATE FUNCTION tilewake.odd_route_point_of(geom @postgis@.geometry) RETURNS point
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $f$
DECLARE
    radius CONSTANT float8 := 6378137;
    srid integer := @postgis@.ST_SRID(geom);
    p @postgis@.geometry := geom;
    x float8;
    y float8;
BEGIN
    IF @postgis@.GeometryType(geom) <> 'POINT' THEN
        BEGIN
            p := @postgis@.ST_PointOnSurface(geom);
        EXCEPTION WHEN OTHERS THEN
            RETURN NULL;
        END;
    END IF;
    IF srid NOT IN (4326, 3857) THEN
        p := tilewake.lonlat(p);
    END IF;
    x := @postgis@.ST_X(p);
    y := @postgis@.ST_Y(p);
    IF srid = 3857 AND abs(x) <= 1e8 AND abs(y) <= 1e9 THEN
        x := degrees(x / radius);
        y := degrees(2 * atan(exp(y / radius))) - 90;
    END IF;
    IF abs(x) <= 1000 AND abs(y) <= 90 THEN
        RETURN point(x, y);
    END IF;
    RETURN NULL;
END
$f$;
$sql$, '@postgis@', postgis);

    -- The same, and inlined where it is simple: in degrees, and well within the globe.
    EXECUTE replace($sql$
CREATE FUNCTION tilewake.box_of(geom @postgis@.geometry) RETURNS box
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN @postgis@.ST_SRID(geom) = 4326 AND @postgis@.box(geom) <@ box '(900,89.9),(-900,-89.9)'
    THEN @postgis@.box(geom) ELSE tilewake.odd_box_of(geom) END;
$sql$, '@postgis@', postgis);

    EXECUTE replace($sql$
CREATE FUNCTION tilewake.route_point_of(geom @postgis@.geometry) RETURNS point
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN @postgis@.GeometryType(geom) = 'POINT' AND @postgis@.ST_SRID(geom) = 4326
        AND @postgis@.box(geom) <@ box '(900,89.9),(-900,-89.9)'
    THEN @postgis@.point(geom) ELSE tilewake.odd_route_point_of(geom) END;
$sql$, '@postgis@', postgis);
END
$do$;

-- Text that does not depend on the session's settings, for the digest of types whose output does.
CREATE FUNCTION tilewake.stable_text(image record) RETURNS text
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET timezone = 'UTC' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN image::text;
END
$$;

CREATE AGGREGATE tilewake.unite(box) (SFUNC = bound_box, STYPE = box, COMBINEFUNC = bound_box, PARALLEL = SAFE);

-- Edits

-- What a statement did to one feature.
CREATE TYPE tilewake.edit AS (
    feature_id text,
    existed boolean,
    stands boolean,
    moved boolean,
    relabelled boolean,
    before_box box,
    after_box box,
    before_point point,
    after_point point,
    digest bigint
);

CREATE FUNCTION tilewake.event_type(existed boolean, stands boolean, moved boolean) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(
    nullif(current_setting('tilewake.intent', true), ''),
    CASE WHEN NOT stands THEN 'retired' WHEN NOT existed THEN 'created' WHEN moved THEN 'moved' ELSE 'updated' END);

CREATE FUNCTION tilewake.what_changed(existed boolean, stands boolean, moved boolean, relabelled boolean) RETURNS "char"
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN NOT (existed AND stands) OR (moved AND relabelled) THEN 'b'::"char"
            WHEN moved THEN 'g'::"char" ELSE 'a'::"char" END;

-- One edit a feature: a key can stand twice in a transition table, by cascades, deferred constraints and inheritance.
CREATE FUNCTION tilewake.one_a_feature(edits tilewake.edit[]) RETURNS SETOF tilewake.edit
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT e.feature_id, bool_or(e.existed), bool_or(e.stands), bool_or(e.moved), bool_or(e.relabelled),
           tilewake.unite(e.before_box), tilewake.unite(e.after_box),
           (array_agg(e.before_point))[1], (array_agg(e.after_point))[1], (array_agg(e.digest))[1]
    FROM unnest(edits) e
    GROUP BY e.feature_id;
END;

-- Where the feature was, unless it is still there. To the last bit, unlike the operators of points: a cell's edge is thin.
CREATE FUNCTION tilewake.point_left(before point, after point) RETURNS point
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN before[0] <> after[0] OR before[1] <> after[1] THEN before END;

-- The edit with what the layer's table holds of its feature now, instead of what the statement's images said.
CREATE FUNCTION tilewake.look(of_layer text, number integer, edit tilewake.edit) RETURNS tilewake.edit
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT * FROM tilewake.look_%s($1)', number)
        INTO STRICT edit.stands, edit.after_box, edit.after_point, edit.digest
        USING edit.feature_id;
    edit.moved := true;
    edit.relabelled := true;
    RETURN edit;
EXCEPTION WHEN OTHERS THEN
    -- The table is not what it was when the function was made.
    PERFORM tilewake.raise_epoch(of_layer);
    RETURN edit;
END
$$;

-- Gives the edits of a statement with many their versions and writes them into the outbox. Capture functions do the same
-- inline for a statement with one, in `capture.sql`.
--
-- The versions come from one sorted upsert: sorted, or two writers could deadlock; and an upsert, because it reads
-- nothing that a serializable transaction would have to remember.
--
-- A feature that this very transaction has edited before is looked up in its table: the triggers of nested statements, and
-- of the parts of one statement, run in any order, so what a transition table shows of it may be outdated. Only then: a
-- serializable transaction would have to remember the look.
CREATE FUNCTION tilewake.record(of_layer text, number integer, edits tilewake.edit[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    written_at CONSTANT timestamptz := clock_timestamp();
    again text[];
BEGIN
    IF cardinality(edits) = 0 THEN
        RETURN;
    END IF;
    WITH edit AS MATERIALIZED (
        SELECT e AS edit, e.* FROM tilewake.one_a_feature(edits) e
    ), version AS (
        INSERT INTO tilewake.feature AS f
            (layer, feature_id, epoch, version, base_version, deleted, box, digest, xact)
        SELECT of_layer, feature_id,
               -- A transaction may be older than the layer and not see its first epoch.
               coalesce((SELECT max(epoch) FROM tilewake.layer_epoch WHERE layer = of_layer), 0),
               -- A feature older than its layer had version 1, and no event.
               1 + existed::integer, existed::integer, NOT stands, after_box, digest, pg_current_xact_id()
        FROM edit
        ORDER BY feature_id COLLATE "C"
        ON CONFLICT (layer, feature_id) DO UPDATE SET
            epoch = greatest(f.epoch, excluded.epoch),
            version = f.version + 1,
            base_version = CASE WHEN excluded.epoch > f.epoch THEN f.version ELSE f.base_version END,
            deleted = excluded.deleted,
            box = excluded.box,
            digest = excluded.digest,
            again = f.xact = excluded.xact,
            xact = excluded.xact
        RETURNING f.feature_id, f.epoch, f.version, f.base_version, f.again
    ), written AS (
        INSERT INTO tilewake.outbox
            (slot, layer, epoch, feature_id, feature_version, base_version, event_type, changed,
             before_box, after_box, route_point, previous_route_point, traceparent, created_at)
        SELECT tilewake.slot(written_at), of_layer, v.epoch, v.feature_id, v.version, v.base_version,
               tilewake.event_type((seen).existed, (seen).stands, (seen).moved),
               tilewake.what_changed((seen).existed, (seen).stands, (seen).moved, (seen).relabelled),
               (seen).before_box, (seen).after_box,
               coalesce((seen).after_point, (seen).before_point),
               tilewake.point_left((seen).before_point, (seen).after_point),
               tilewake.traceparent(), written_at
        -- Both sides hold the same features. A full join, because it is never planned as a loop in a loop: the plan is
        -- kept, for statements of one row and of a million.
        FROM edit FULL JOIN version v ON v.feature_id = edit.feature_id
            CROSS JOIN LATERAL (
                SELECT CASE WHEN v.again THEN tilewake.look(of_layer, number, edit) ELSE edit END AS seen OFFSET 0) s
    )
    SELECT array_agg(v.feature_id) FILTER (WHERE v.again) INTO again FROM version v;
    IF again IS NOT NULL THEN
        UPDATE tilewake.feature f
        SET deleted = NOT (s.seen).stands, box = (s.seen).after_box, digest = (s.seen).digest
        FROM (
            SELECT tilewake.look(of_layer, number, e) AS seen
            FROM tilewake.one_a_feature(edits) e WHERE e.feature_id = ANY (again) OFFSET 0
        ) s
        WHERE f.layer = of_layer AND f.feature_id = (s.seen).feature_id;
    END IF;
    PERFORM tilewake.wake();
END
$$;
