DECLARE
    edits tilewake.edit[];
BEGIN
    BEGIN
        edits := ARRAY({edits});
    EXCEPTION WHEN OTHERS THEN
        -- The table is not what it was when this was written, or more was edited at once than fits. The writer must not
        -- fail: nothing can be told of its edits one by one, so the layer is purged.
        PERFORM tilewake.raise_epoch({layer});
        RETURN NULL;
    END;
    IF cardinality(edits) > 0 THEN
        PERFORM tilewake.record({layer}, {number}, edits);
    END IF;
    RETURN NULL;
END
