-- row: 60
-- where: fetch
-- expect: error
-- says: must be the name of one object
return { a = fence.get('v1', 'pods', '', '') }
