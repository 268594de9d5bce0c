-- The same features three times: edited as they are, with an outbox written by hand, and as a layer of tilewake.
CREATE TABLE plain (
    id integer PRIMARY KEY, name text NOT NULL, version integer NOT NULL DEFAULT 1, geom geometry(Point, 4326) NOT NULL);
CREATE INDEX ON plain USING gist (geom);
INSERT INTO plain SELECT i, 'feature ' || i, 1, ST_SetSRID(ST_Point(24 + random(), 60 + random()), 4326)
FROM generate_series(1, 100000) i;

CREATE TABLE by_hand (LIKE plain INCLUDING ALL);
INSERT INTO by_hand SELECT * FROM plain;
-- What teams write: an ordered id, what to relay, and an index for the relay.
CREATE TABLE by_hand_outbox (
    id bigserial PRIMARY KEY, feature_id integer NOT NULL, version integer NOT NULL, event_type text NOT NULL,
    key text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz);
CREATE INDEX ON by_hand_outbox (id) WHERE published_at IS NULL;

CREATE TABLE layer (LIKE plain INCLUDING ALL);
INSERT INTO layer SELECT * FROM plain;
