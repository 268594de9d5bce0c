-- What the renderer asks the index of a layer's geometry for.

DO $do$
DECLARE
    postgis text := (
        SELECT quote_ident(n.nspname)
        FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'postgis');
BEGIN
    -- Boxes in the layer's own SRID, of which a geometry must meet one to be drawn between these degrees, `west` and
    -- `east` being up to a world beyond ±180. Everything, where there is no better answer. Never raises.
    EXECUTE replace($sql$
CREATE FUNCTION tilewake.boxes_in(srid integer, west float8, south float8, east float8, north float8)
RETURNS @postgis@.geometry[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $f$
DECLARE
    -- The largest float4, as indexes have it.
    far CONSTANT float8 := 3e38;
    everything CONSTANT @postgis@.geometry[] := ARRAY[@postgis@.ST_MakeEnvelope(-far, -far, far, far, srid)];
    radius CONSTANT float8 := 6378137;
    world float8 := 360;
    outline @postgis@.geometry;
    there @postgis@.geometry;
BEGIN
    IF srid NOT IN (4326, 3857) THEN
        -- A straight line there is bent here: whatever of it bends into the tile meets a box that is half a tile and some
        -- 300 m larger, if it is not longer than about 50 km.
        outline := @postgis@.ST_Segmentize(
            @postgis@.ST_MakeEnvelope(
                west - (east - west) / 2 - 0.003 / cos(radians(greatest(abs(south), abs(north)))),
                greatest(south - (north - south) / 2 - 0.003, -89.9),
                east + (east - west) / 2 + 0.003 / cos(radians(greatest(abs(south), abs(north)))),
                least(north + (north - south) / 2 + 0.003, 89.9), 4326),
            (east - west) / 8);
        IF east - west > 12 OR @postgis@.ST_XMin(outline) < -180 OR @postgis@.ST_XMax(outline) > 180 THEN
            RETURN everything;
        END IF;
        there := @postgis@.ST_Transform(outline, srid);
        -- Beyond its domain a projection may fold the plane instead of raising: then the way back leads elsewhere.
        IF @postgis@.ST_HausdorffDistance(@postgis@.ST_Transform(there, 4326), outline) < (east - west) / 1000 THEN
            RETURN ARRAY[@postgis@.ST_Envelope(there)];
        END IF;
        RETURN everything;
    END IF;
    IF srid = 3857 THEN
        west := radians(west) * radius;
        east := radians(east) * radius;
        south := ln(tan(pi() / 4 + radians(south) / 2)) * radius;
        north := ln(tan(pi() / 4 + radians(north) / 2)) * radius;
        world := 2 * pi() * radius;
    END IF;
    RETURN ARRAY[
        -- The world and its copies to the left and the right: for the buffer that wraps, and for longitudes beyond ±180.
        @postgis@.ST_MakeEnvelope(west, south, east, north, srid),
        @postgis@.ST_MakeEnvelope(west - world, south, east - world, north, srid),
        @postgis@.ST_MakeEnvelope(west + world, south, east + world, north, srid)
    ] || CASE WHEN srid = 3857 THEN ARRAY[
        -- The transformation wraps these vertex by vertex, so that they may be drawn anywhere.
        @postgis@.ST_MakeEnvelope(-far, south, -world / 2, north, srid),
        @postgis@.ST_MakeEnvelope(world / 2, south, far, north, srid)
    ] ELSE ARRAY[
        -- And all further copies.
        @postgis@.ST_MakeEnvelope(-far, south, east - 2 * world, north, srid),
        @postgis@.ST_MakeEnvelope(west + 2 * world, south, far, north, srid)
    ] END;
EXCEPTION WHEN OTHERS THEN
    RETURN everything;
END
$f$;
$sql$, '@postgis@', postgis);

    -- In one place, because the operator needs its schema. Without settings, so that the planner writes it out in the
    -- statement and finds the index.
    EXECUTE replace($sql$
CREATE FUNCTION tilewake.meets(geom @postgis@.geometry, boxes @postgis@.geometry[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN geom OPERATOR(@postgis@.&&) ANY (boxes);
$sql$, '@postgis@', postgis);
END
$do$;
