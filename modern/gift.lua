-- listens returns whether a subscriber on this server hears messages to the process. Before Redis 6, and where a
-- user may not ask, an empty message asks, which tells nothing.
local function listens(process)
  local count = redis.setresp and redis.pcall('PUBSUB', 'NUMSUB', 'gsl:turn:' .. process) or {}
  local heard = tonumber(count[2])
  if not heard then return publish(process, '') end
  return heard > 0
end

-- drawn returns the first fencing number for the next holder. It returns nil if the caller draws no numbers, the
-- counter is unreadable, or the server has no memory left. The next waiter's own script then reports that.
local function drawn(numbers, sec, usec)
  if not KEYS[4] then return nil end
  local ok, number = pcall(draw, KEYS[4], numbers, sec, usec)
  return ok and number or nil
end

-- give writes the token of the first waiter to the key, for that waiter's whole TTL, and tells its process. It
-- removes the places of processes that do not listen: they have ended, or have just lost their connection. It
-- also removes a place with the token of the holder. It leaves the key as it was and returns nil if there is no
-- waiter, false if the first cannot be given the key.
-- HAZARD: replicas pass messages on, to subscribers that are not counted here. A waiter that is passed over must
-- not hear that it has the key. So it is asked first whether a subscriber listens here.
-- HAZARD: a replica or the AOF may run this script again, without a subscriber, and pass over the waiter that has
-- the key. So the server must replicate what the script writes. Before Redis 3.2 none can; the first is called.
local function give(holder, sec, usec)
  if not redis.replicate_commands then
    callHead()
    return false
  end
  redis.replicate_commands()
  local number, many
  while true do
    local first = redis.call('ZRANGE', order, 0, 0)[1]
    if not first then return nil end
    local process, ms, numbers, token = parts(first)
    if process == '-' then return false end
    if process and numbers ~= '0' and numbers ~= many then
      number, many = drawn(numbers, sec, usec), numbers
      if not number then
        call(process, 0, token)
        return false
      end
    end
    leave(first) -- before the SET, which a server without memory then lets pass
    if process and token ~= holder and listens(process) then
      redis.call('SET', KEYS[1], token, 'PX', ms)
      if call(process, numbers ~= '0' and number or 1, token) then return true end
      redis.call('DEL', KEYS[1]) -- the server refuses PUBLISH, so the waiter was told nothing
    end
  end
end

-- pass gives the holder's key to the first waiter, or deletes it.
local function pass(holder, sec, usec)
  local given = give(holder, sec, usec)
  if given == nil then redis.call('DEL', KEYS[1], alive) elseif not given then redis.call('DEL', KEYS[1]) end
  return 1
end
