-- fold: roster; a member, its bytes, those of the field gone (none: empty), the new ones → 1 folded, 0 if others stand there
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if (redis.call('HGET', KEYS[1], 'gone') or '') ~= ARGV[3] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], 'gone', ARGV[4])
return 1
