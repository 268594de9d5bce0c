\set id random(1, 100000)
\set x random(24000000, 25000000) / 1000000.0
UPDATE layer SET geom = ST_SetSRID(ST_Point(:x, 60.5), 4326) WHERE id = :id;
