-- drop_beside: record, another; the bytes that were judged, those of the other → 1 deleted, 0 if others stand there
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])
