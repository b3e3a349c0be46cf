-- bridge_check: L, M; token → {1, PTTL L, PTTL M} or {0 (M) or 2 (L), look}
local on = mine(ARGV[1])
if not on then return {0, look()} end
if not stands(on) then return {2, look()} end
return {1, redis.call('PTTL', L), redis.call('PTTL', M)}
