-- forget: member; the bytes that were judged → 1 deleted, 0 if it has beaten since
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
