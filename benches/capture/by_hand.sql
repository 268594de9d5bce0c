\set id random(1, 100000)
\set x random(24000000, 25000000) / 1000000.0
BEGIN;
UPDATE by_hand SET geom = ST_SetSRID(ST_Point(:x, 60.5), 4326), version = version + 1 WHERE id = :id RETURNING version \gset
INSERT INTO by_hand_outbox (feature_id, version, event_type, key) VALUES (:id, :version, 'moved', 'layer/' || :id);
COMMIT;
