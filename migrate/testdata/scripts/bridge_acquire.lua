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
  -- Fencing numbers: the greater of last + 1 and the server's clock in microseconds, which doubles hold
-- exactly until the year 2255. The clock makes a promoted replica that lost writes go on above what
-- was given out; the counter makes a clock that was set back do no harm.
local function draw(counter, numbers, sec, usec)
  if sec == '' then
    if redis.replicate_commands then redis.replicate_commands() end
    local t = redis.call('TIME')
    sec, usec = t[1], t[2]
  end
  local last = tonumber(redis.call('GET', counter) or 0)
  if not (last and last <= 9e15) then error('getsetlock: ' .. counter .. ' holds no fencing number') end
  local fence = math.max(last + 1, tonumber(sec) * 1000000 + tonumber(usec))
  redis.call('SET', counter, string.format('%.0f', fence + tonumber(numbers) - 1))
  return fence
end
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
-- left says whether M says that nobody holds the key: a release left it to old clients for a while.
local function left()
  local m = redis.pcall('GET', M)
  return type(m) == 'string' and #m == 27 and string.find(m, '^left [%w_%-]+$') ~= nil
end
-- An old client has taken the key that was left to it, so the time for that is over.
if on ~= '' and left() then
  local v = redis.pcall('GET', L)
  if v and v ~= ARGV[4] then redis.pcall('DEL', M) end
end
-- look is what stands there, and the clock: type, value (its first kilobyte), size, PTTL, M, its PTTL,
-- seconds, microseconds. Nothing is written after it.
local function look()
  local t = call('TIME')
  local kind, value, size = call('TYPE', L).ok, false, 0
  if kind == 'string' then
    value, size = call('GETRANGE', L, 0, 1023), call('STRLEN', L)
  end
  local m = redis.pcall('GET', M)
  if type(m) == 'table' then m = '' end
  return {kind, value, size, call('PTTL', L), m, call('PTTL', M), t[1], t[2]}
end
return {0, look()}
