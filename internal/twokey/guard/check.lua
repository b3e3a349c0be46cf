-- bridge_check: L, M; token → {1, PTTL L, PTTL M} or {0 (M) or 2 (L), look}
local L, M, call = KEYS[1], KEYS[2], redis.call
-- insert look
-- insert mine
local on = mine(ARGV[1])
if not on then return {0, look()} end
if not stands(on) then return {2, look()} end
return {1, call('PTTL', L), call('PTTL', M)}
