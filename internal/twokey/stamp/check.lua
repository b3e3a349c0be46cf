-- check: L, M; token, gap → {1, PTTL L, PTTL M} or {0 (M) or 2 (L), look}
local L, M, call = KEYS[1], KEYS[2], redis.call
-- insert look
-- insert mine
local last = mine(ARGV[1])
if not last then return {0, look()} end
if not stands(last, ARGV[2]) then return {2, look()} end
return {1, call('PTTL', L), call('PTTL', M)}
