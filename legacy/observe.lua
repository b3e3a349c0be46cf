-- observe: L, M → look
local t = redis.call('TIME')
return look(t[1], t[2])
