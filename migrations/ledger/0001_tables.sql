-- What consumers know and have decided. May stand in another database than the features, and needs no PostGIS there.

CREATE TABLE tilewake.consumer (
    name text COLLATE "C" PRIMARY KEY,
    -- The number of the newest journal row. Raised last in a consumer's transaction: the lock on this row makes the order
    -- of the numbers the order of the commits, without holes.
    journal_number bigint NOT NULL DEFAULT 0,
    -- Null for a name that has got every event there ever was; else since when it has.
    late_since timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 10); -- One row, updated by every batch: room for its versions keeps the updates on the page (HOT).

CREATE TABLE tilewake.consumer_layer (
    consumer text COLLATE "C" NOT NULL REFERENCES tilewake.consumer (name) ON DELETE CASCADE,
    layer text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    -- The newest epochs whose own events have arrived, sorted.
    raised bigint[] NOT NULL DEFAULT '{}',
    -- The last known settings and the epoch whose event brought them; null until the first such event has arrived.
    settings_epoch bigint,
    settings jsonb,
    PRIMARY KEY (consumer, layer)
);

-- The ids of events seen: the truth about duplicates. Rows older than the window go; the ledger's watermarks still tell
-- their duplicates then.
CREATE TABLE tilewake.consumed (
    consumer text COLLATE "C" NOT NULL,
    layer text COLLATE "C" NOT NULL,
    feature_id text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    version bigint NOT NULL,
    consumed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, layer, feature_id, epoch, version)
);
-- In order of insertion, so a few pages a million rows: for pruning by age.
CREATE INDEX consumed_by_age ON tilewake.consumed USING brin (consumed_at);

CREATE TABLE tilewake.ledger (
    consumer text COLLATE "C" NOT NULL,
    layer text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    feature_id text COLLATE "C" NOT NULL,
    base_version bigint NOT NULL,
    -- Every version up to here was seen.
    watermark bigint NOT NULL,
    -- The versions seen above it.
    seen int8multirange NOT NULL DEFAULT '{}',
    -- Since when there has been a gap below them.
    gap_since timestamptz,
    -- Versions from here on are certain to arrive; null while none is.
    certain_from bigint,
    -- The newest version whose geometry was applied; null while none was.
    state_version bigint,
    -- Its geometry as well-known binary in EPSG:4326, or only its box; both null where nothing is drawn.
    geometry bytea,
    box box,
    -- Inserted only to be locked, by a transaction that has not decided yet.
    is_new boolean NOT NULL,
    PRIMARY KEY (consumer, layer, epoch, feature_id)
) WITH (fillfactor = 70); -- Every event updates a row and no indexed column: room keeps the updates on the page (HOT).
CREATE INDEX ledger_gaps ON tilewake.ledger (consumer, gap_since) WHERE gap_since IS NOT NULL;

CREATE TABLE tilewake.journal (
    consumer text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    layer text COLLATE "C" NOT NULL,
    -- Ranges of PMTiles tile ids as varints.
    tiles bytea NOT NULL,
    -- Which events made them stale, and how these had arrived.
    events jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, number)
);

-- How far purgers of lasting targets have come. The cache within a process begins empty and needs none.
CREATE TABLE tilewake.purge_cursor (
    consumer text COLLATE "C" NOT NULL REFERENCES tilewake.consumer (name) ON DELETE CASCADE,
    target text COLLATE "C" NOT NULL,
    purged bigint NOT NULL,
    confirmed bigint NOT NULL,
    PRIMARY KEY (consumer, target)
);

-- Whether events may have been published before now: a consumer name that begins after that has missed some.
-- In a database without an outbox nobody can know.
CREATE FUNCTION tilewake.has_had_events() RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $$
BEGIN
    IF to_regclass('tilewake.outbox') IS NULL THEN
        RETURN true;
    END IF;
    RETURN (SELECT is_called FROM tilewake.outbox_id);
END
$$;
