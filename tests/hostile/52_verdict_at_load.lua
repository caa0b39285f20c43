-- row: 52
-- where: file
-- expect: load
-- says: make it inside of pod()
local v = fence.delete_pod('x')
return policy {
  api = 1, name = 'test', version = '1.0.0', summary = 'keeps a verdict',
  pod = function() return v end,
}
