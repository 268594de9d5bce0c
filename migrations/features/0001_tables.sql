-- What capture keeps beside the user's tables: which tables are layers, the versions of their features, and the outbox.
--
-- Nothing here has a geometry: a box and a point have a constant size, and the geometry itself is read by the relay when
-- it is needed, from where it is.

-- Writers have no rights in this schema and need none: capture runs with its owner's. Only `tilewake.intent` is for all.
GRANT USAGE ON SCHEMA tilewake TO PUBLIC;

CREATE TABLE tilewake.registered_layer (
    name text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[a-z0-9_-]{1,63}$'),
    -- Names the capture functions: a layer's own name may be as long as an identifier.
    number integer GENERATED ALWAYS AS IDENTITY UNIQUE,
    relation oid NOT NULL,
    table_schema text NOT NULL,
    table_name text NOT NULL,
    id_column text NOT NULL,
    id_type text NOT NULL,
    geometry_column text NOT NULL,
    columns text[] NOT NULL,
    -- Whether a column that is added to the table is shown, too.
    all_columns boolean NOT NULL,
    -- 0 where the column does not fix it: every row says its own then.
    srid integer NOT NULL,
    min_zoom smallint NOT NULL,
    max_zoom smallint NOT NULL,
    buffer float8 NOT NULL,
    policy text NOT NULL,
    beyond_180 text NOT NULL,
    -- Partitions, inheritance children and columns as they were captured, to notice that they were altered.
    shape_digest text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- A removed layer keeps its row and its epochs: no event id may ever come again.
    removed_at timestamptz
);

-- The epochs of the layers; the highest holds. A table of its own, only ever inserted into: whoever truncates a partition
-- raises the epoch, and on one row two of them would wait for each other, and might deadlock.
CREATE TABLE tilewake.layer_epoch (
    layer text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    raised_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (layer, epoch)
);

CREATE VIEW tilewake.layer AS
SELECT l.*, (SELECT max(e.epoch) FROM tilewake.layer_epoch e WHERE e.layer = l.name) AS epoch
FROM tilewake.registered_layer l;

CREATE TABLE tilewake.feature (
    epoch bigint NOT NULL,
    version bigint NOT NULL,
    -- Before the first event of the epoch.
    base_version bigint NOT NULL,
    -- Of geometry and shown columns; null for a deleted feature.
    digest bigint,
    -- Who wrote this version, and whether the one before it was written by the same transaction: then what a transition
    -- table shows may be outdated, and capture looks into the table.
    xact xid8 NOT NULL,
    box box,
    deleted boolean NOT NULL,
    again boolean NOT NULL DEFAULT false,
    layer text COLLATE "C" NOT NULL,
    feature_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (layer, feature_id)
) WITH (
    -- Every edit updates one row, and no indexed column: room on the page keeps the update there (HOT), without work for
    -- the index.
    fillfactor = 80,
    -- Hot rows leave dead versions as fast as edits come; a fifth of a large table is too late to clean up.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000
);

CREATE SEQUENCE tilewake.outbox_id AS bigint;

-- Widest alignment first, or padding would cost ten bytes a row.
CREATE TABLE tilewake.outbox (
    id bigint NOT NULL DEFAULT nextval('tilewake.outbox_id'),
    epoch bigint NOT NULL,
    feature_version bigint NOT NULL,
    base_version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    before_box box,
    after_box box,
    route_point point,
    previous_route_point point,
    slot smallint NOT NULL,
    schema_version smallint NOT NULL DEFAULT 1,
    attempts smallint NOT NULL DEFAULT 0,
    -- g: geometry, a: attributes, b: both.
    changed "char" NOT NULL,
    layer text COLLATE "C" NOT NULL,
    feature_id text COLLATE "C" NOT NULL,
    event_type text NOT NULL,
    traceparent text,
    -- Null until an attempt has failed: at once.
    available_at timestamptz,
    last_error text,
    published_at timestamptz
) PARTITION BY LIST (slot);

COMMENT ON TABLE tilewake.outbox IS
    'The edits, written by the transactions that made them. A ring: a row stands in the leaf of its UTC day modulo 9.';
ALTER SEQUENCE tilewake.outbox_id OWNED BY tilewake.outbox.id;

DO $$
BEGIN
    FOR slot IN 0..8 LOOP
        EXECUTE format(
            'CREATE TABLE tilewake.outbox_%1$s PARTITION OF tilewake.outbox FOR VALUES IN (%1$s) WITH (
                -- The unpublished rows'' index fills with entries of published ones: cleaned up by number of rows, for
                -- a share of the day''s would be too late in the evening.
                autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
                -- Rows live for days and their leaf is truncated then: nothing here is worth freezing early.
                autovacuum_vacuum_insert_threshold = -1,
                -- Shrinking the file would lock the leaf; the ring does it.
                vacuum_truncate = off)',
            slot);
        EXECUTE format(
            'CREATE INDEX outbox_%1$s_unpublished ON tilewake.outbox_%1$s (id) WHERE published_at IS NULL', slot);
    END LOOP;
END
$$;

CREATE TABLE tilewake.dead_letter (
    id bigint PRIMARY KEY,
    epoch bigint NOT NULL,
    feature_version bigint NOT NULL,
    base_version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    before_box box,
    after_box box,
    route_point point,
    previous_route_point point,
    schema_version smallint NOT NULL,
    attempts smallint NOT NULL,
    changed "char" NOT NULL,
    layer text COLLATE "C" NOT NULL,
    feature_id text COLLATE "C" NOT NULL,
    event_type text NOT NULL,
    traceparent text,
    reason text NOT NULL,
    error text,
    event jsonb,
    died_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The cluster that the relay last ran on. Another one may have lost edits that were announced already.
CREATE TABLE tilewake.cluster (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    system_identifier bigint NOT NULL,
    timeline bigint NOT NULL
);
