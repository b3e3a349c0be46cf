-- check: L, M; token, gap → {1, PTTL L, PTTL M} or {0 (M) or 2 (L), look}
local last = mine(ARGV[1])
if not last then return {0, look(0, 0)} end
if not stands(last, ARGV[2]) then return {2, look(0, 0)} end
return {1, redis.call('PTTL', L), redis.call('PTTL', M)}
