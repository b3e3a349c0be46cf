-- beside: record, another; the bytes that were judged (none: empty), the new ones, those of the other (none: empty) → 1 changed, 0 if others stand there
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
if (redis.call('GET', KEYS[2]) or '') ~= ARGV[3] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
