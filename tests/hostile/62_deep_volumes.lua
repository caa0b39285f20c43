-- row: 62
-- where: pod
-- more: needs = { 'volumes' },
-- expect: error
-- says: must be a volume of this pod
local t = {}
for i = 1, 10000 do t = { t } end
return fence.delete_attachments('x', t)
