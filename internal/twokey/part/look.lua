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
