-- row: 60
-- where: plan
-- expect: error
-- says: is no name of an object
return { a = fence.get('v1', 'pods', 'a', 'b?watch=1') }
