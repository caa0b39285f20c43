-- row: 47
-- where: file
-- expect: ok
-- says: time 1
local n = 0
return policy {
  api = 1, name = 'test', version = '1.0.0', summary = 'counts',
  pod = function()
    n = n + 1
    return fence.skip('time ' .. n)
  end,
}
