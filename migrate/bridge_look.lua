-- bridge_look: L, M → look
return look()
