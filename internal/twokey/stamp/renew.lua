-- renew: L, M; token, M's PX, L's PX, mark (7), gap → {1, PTTL L, M before; L, M after, sec, usec} or {0 (M) or 2 (L), look}
local L, M, call = KEYS[1], KEYS[2], redis.call
-- insert now
-- insert look
-- insert mine
local sec, usec = now(ARGV[9], ARGV[10])
local last = mine(ARGV[1])
if not last then return {0, look()} end
-- M is not renewed without L: it ends, after trust has, with the lease that L was lost from (rules 7, 8).
if not stands(last, ARGV[11]) then return {2, look()} end

local l, m = call('PTTL', L), call('PTTL', M)
-- A server without memory refuses a SET, unless the script has written before by what takes none.
call('PEXPIRE', M, ARGV[2])
-- insert mark
local bytes = mark(sec, usec, ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8])
-- Both TTLs anew, whatever EXPIRE made of them since (rule 9). They are read last, so that a renewal
-- under tracking ends with both keys registered again.
call('SET', L, bytes, 'PX', ARGV[3])
call('SET', M, ARGV[1] .. ' ' .. bytes, 'PX', ARGV[2])
return {1, l, m, call('PTTL', L), call('PTTL', M), sec, usec}
