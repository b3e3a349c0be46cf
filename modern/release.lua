-- release: key; token → 1 when deleted, 0 when not ours
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
