-- row: 46
-- where: file
-- expect: ok
-- says: before: nil
local kept
return policy {
  api = 1, name = 'test', version = '1.0.0', summary = 'keeps its pod',
  pod = function(pod)
    local before = kept
    kept = pod
    return fence.skip('before: ' .. tostring(before))
  end,
}
