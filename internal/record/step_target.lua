-- step_target: record; the bytes that were judged, the new ones, a target's word, the roster → 1 changed, 0 if others stand there, -1 if a member has another target
-- The roster is an argument: a cluster of one shard takes no keys of several slots.
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
-- Of the roster's fields only the nonce has another beginning.
for _, text in ipairs(redis.call('HVALS', ARGV[4])) do
  if string.sub(text, 1, 4) == 'gsl/' and not string.find(text, ' ' .. ARGV[3] .. ' ', 1, true) then return -1 end
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
