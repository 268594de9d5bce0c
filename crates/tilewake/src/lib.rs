//! tilewake moves edits of map features to the tile caches that drew them.
