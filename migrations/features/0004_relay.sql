-- What the relay and the renderer read.

-- A geometry as it is carried: well-known binary in EPSG:4326, flat, its curves as lines. Never raises: one odd row must
-- not fail the batch it is read in, nor the tile it is drawn in. `omitted` says why there is no binary; both are null
-- where nothing is drawn.
DO $do$
DECLARE
    postgis text := (
        SELECT quote_ident(n.nspname)
        FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'postgis');
BEGIN
    EXECUTE replace($sql$
CREATE FUNCTION tilewake.carried(geom @postgis@.geometry, max_bytes bigint, OUT wkb bytea, OUT omitted text)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $f$
DECLARE
    lonlat @postgis@.geometry;
BEGIN
    IF geom IS NULL OR @postgis@.ST_IsEmpty(geom) THEN
        RETURN;
    END IF;
    -- Before the work, not after it: a curve or a transformation may need a multiple of it.
    IF @postgis@.ST_MemSize(geom) > max_bytes THEN
        omitted := 'too_large';
        RETURN;
    END IF;
    lonlat := tilewake.lonlat(geom);
    IF lonlat IS NULL THEN
        omitted := 'not_encodable';
        RETURN;
    END IF;
    IF @postgis@.ST_HasArc(lonlat) THEN
        lonlat := @postgis@.ST_CurveToLine(lonlat);
    END IF;
    wkb := @postgis@.ST_AsBinary(@postgis@.ST_Force2D(lonlat), 'NDR');
    IF octet_length(wkb) > max_bytes THEN
        wkb := NULL;
        omitted := 'too_large';
    END IF;
EXCEPTION WHEN OTHERS THEN
    wkb := NULL;
    omitted := 'not_encodable';
END
$f$;
$sql$, '@postgis@', postgis);
END
$do$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA tilewake FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tilewake.intent(text) TO PUBLIC;
