-- bridge_renew: L, M; token, PX, tombstone, its PX → {1, PTTL L, M before; L, M after} or {0 (M) or 2 (L), look}
local L, M, call = KEYS[1], KEYS[2], redis.call
-- insert look
-- insert mine
-- insert keep
local on = mine(ARGV[1])
if not on then return {0, look()} end
-- M is not renewed without L: it ends, after trust has, with the lease that L was lost from (rules 7, 8).
if not stands(on) then return {2, look()} end
local l, m = call('PTTL', L), call('PTTL', M)
-- Both anew, whatever EXPIRE made of them since (rule 9). They are read last, so that a renewal under
-- tracking ends with both keys registered again.
keep(on, ARGV[2], ARGV[3], ARGV[4])
return {1, l, m, call('PTTL', L), call('PTTL', M)}
