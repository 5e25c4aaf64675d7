-- SipHash-2-4 with 128 bits of output (Aumasson and Bernstein). Lua counts in doubles, so each 64-bit word is a high
-- and a low half, from 0 to 2^32 - 1. The halves are separate variables, because tables cost several times as much.
local WORD = 4294967296

local function plus(ah, al, bh, bl)
  local high, low = ah + bh, al + bl
  if low >= WORD then high, low = high + 1, low - WORD end
  return high >= WORD and high - WORD or high, low
end

-- Rotates a to the left, then xors b. `up` is 2 to the number of places, `down` is 2 to 32 less that number.
local function mixed(ah, al, up, down, bh, bl)
  local high = ah * up % WORD + (al - al % down) / down
  local low = al * up % WORD + (ah - ah % down) / down
  return bit.bxor(high, bh) % WORD, bit.bxor(low, bl) % WORD
end

-- A rotation by 32 places swaps the halves.
local function rounds(n, ah, al, bh, bl, ch, cl, dh, dl)
  for _ = 1, n do
    ah, al = plus(ah, al, bh, bl)
    bh, bl = mixed(bh, bl, 8192, 524288, ah, al)
    ch, cl = plus(ch, cl, dh, dl)
    dh, dl = mixed(dh, dl, 65536, 65536, ch, cl)
    ah, al = plus(al, ah, dh, dl)
    dh, dl = mixed(dh, dl, 2097152, 2048, ah, al)
    ch, cl = plus(ch, cl, bh, bl)
    bh, bl = mixed(bh, bl, 131072, 32768, ch, cl)
    ch, cl = cl, ch
  end
  return ah, al, bh, bl, ch, cl, dh, dl
end

local function siphash(secret, text)
  local bxor = bit.bxor
  local kl, kh, ll, lh = struct.unpack('<I4I4I4I4', secret)
  local ah, al = bxor(kh, 0x736f6d65) % WORD, bxor(kl, 0x70736575) % WORD
  local bh, bl = bxor(lh, 0x646f7261) % WORD, bxor(ll, 0x6e646f6d, 0xee) % WORD
  local ch, cl = bxor(kh, 0x6c796765) % WORD, bxor(kl, 0x6e657261) % WORD
  local dh, dl = bxor(lh, 0x74656462) % WORD, bxor(ll, 0x79746573) % WORD
  local padded = text .. string.rep('\0', 7 - #text % 8) .. string.char(#text % 256)
  for at = 1, #padded, 8 do
    local low, high = struct.unpack('<I4I4', padded, at)
    dh, dl = bxor(dh, high) % WORD, bxor(dl, low) % WORD
    ah, al, bh, bl, ch, cl, dh, dl = rounds(2, ah, al, bh, bl, ch, cl, dh, dl)
    ah, al = bxor(ah, high) % WORD, bxor(al, low) % WORD
  end
  cl = bxor(cl, 0xee) % WORD
  ah, al, bh, bl, ch, cl, dh, dl = rounds(4, ah, al, bh, bl, ch, cl, dh, dl)
  local first = struct.pack('>I4I4', bxor(ah, bh, ch, dh) % WORD, bxor(al, bl, cl, dl) % WORD)
  bl = bxor(bl, 0xdd) % WORD
  ah, al, bh, bl, ch, cl, dh, dl = rounds(4, ah, al, bh, bl, ch, cl, dh, dl)
  return struct.pack('>I4I4', bxor(ah, bh, ch, dh) % WORD, bxor(al, bl, cl, dl) % WORD) .. first
end
