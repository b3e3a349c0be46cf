-- sweep: L, M; tombstone, 1 if M must not exist → 1 deleted, 0 left alone
if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
-- While a holder of ours stands beside it, the tombstone is what keeps old clients out.
if ARGV[2] == '1' then
  local m = redis.pcall('GET', KEYS[2])
  -- What a release leaves on M for a while is nobody's token.
  local left = type(m) == 'string' and #m == 27 and string.find(m, '^left [%w_%-]+$')
  if m and not left then return 0 end
end
return redis.call('DEL', KEYS[1])
