-- bridge_acquire: L, M, the remembered look, counter if there is one; M's value with the guard, PX, guard ('': M alone), tombstone, and, as far as needed, numbers, the tombstone's PX ('': it gives way to the guard), seen, 1 to read the clock, TIME twice → fencing number or 1 (free), the same below zero (on the tombstone), {1 (free), 2 (took over) or 3 (on the tombstone), sec, usec (0 when not read), fencing number or 1} or {0, look}
local L, M, call = KEYS[1], KEYS[2], redis.call
local value, px, on, tombPX = ARGV[1], ARGV[2], ARGV[3], ARGV[6] or ''

-- What L allows, and what the lease then hangs on.
local how, number = 1, 1
if on ~= '' then
  local v = redis.pcall('GET', L)
  if v == ARGV[4] and tombPX ~= '' then
    local token = string.find(value, ' ', 1, true)
    how, value = 3, string.sub(value, 1, token) .. v .. string.sub(value, token + #on + 1)
  elseif v and v ~= ARGV[4] then
    -- A value is only replaced if it is still the very one that was judged (rule 1).
    how = v ~= '' and v == ARGV[7] and 2 or 0
  end
end

if how > 0 and (ARGV[5] or '') ~= '' then
  -- insert draw
  -- Before a key is written: a counter that cannot be read must not leave the lock taken.
  if call('EXISTS', M) == 1 then how = 0 else number = draw(KEYS[4], ARGV[5], ARGV[9] or '', ARGV[10] or '') end
end
-- M keeps ours from ours, also while a holder that lost L is still being stopped (rule 8).
if how > 0 and call('SET', M, value, 'PX', px, 'NX') then
  if how < 3 then
    if on ~= '' then
      call('SET', L, on, 'PX', px)
      -- A look speaks of bytes that stand on L no more. A user without the right to DEL leaves it.
      redis.pcall('DEL', KEYS[3])
    end
  elseif call('PTTL', L) * 2 < tonumber(tombPX) then
    -- So long a time is only restored when somebody cut it, or when it has grown old.
    call('PEXPIRE', L, tombPX)
  end
  if ARGV[8] == '1' then
    local t = call('TIME')
    return {how, t[1], t[2], number}
  end
  -- A table costs the server as much as a command.
  if how == 2 then return {2, 0, 0, number} end
  return how == 1 and number or -number
end
-- insert left
-- An old client has taken the key that was left to it, so the time for that is over.
if on ~= '' and left() then
  local v = redis.pcall('GET', L)
  if v and v ~= ARGV[4] then redis.pcall('DEL', M) end
end
-- insert look
return {0, look()}
