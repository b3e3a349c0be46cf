-- left says whether M says that nobody holds the key: a release left it to old clients for a while.
local function left()
  local m = redis.pcall('GET', M)
  return type(m) == 'string' and #m == 27 and string.find(m, '^left [%w_%-]+$') ~= nil
end
