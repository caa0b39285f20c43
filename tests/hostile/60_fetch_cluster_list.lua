-- row: 60
-- where: fetch
-- expect: error
-- says: lists are not read
return { a = fence.get('v1', 'persistentvolumes', '') }
