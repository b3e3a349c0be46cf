-- drop: a key; the bytes that were judged → 1 deleted, 0 if others stand there
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
