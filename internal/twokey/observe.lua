-- observe: L, M → look
local L, M, call = KEYS[1], KEYS[2], redis.call
-- insert look
return look()
