-- end: roster; its nonce → 1 deleted, 0 if it has another
if redis.call('HGET', KEYS[1], 'nonce') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
