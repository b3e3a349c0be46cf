-- check: L, M; token, gap → {1, PTTL L, PTTL M} or {0 (M) or 2 (L), look}
local last, t = mine(ARGV[1]), redis.call('TIME')
if not last then return {0, look(t[1], t[2])} end
if not stands(last, ARGV[2]) then return {2, look(t[1], t[2])} end
return {1, redis.call('PTTL', L), redis.call('PTTL', M)}
