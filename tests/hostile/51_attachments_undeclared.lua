-- row: 51
-- where: pod
-- expect: error
-- says: declare needs = { 'volumes' }
return fence.delete_attachments('x', { pod })
