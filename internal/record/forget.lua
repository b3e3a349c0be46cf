-- forget: roster; a field, the bytes that were judged → 1 deleted, 0 if others stand there: a member that has beaten since
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
