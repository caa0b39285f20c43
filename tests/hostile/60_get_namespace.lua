-- row: 60
-- where: plan
-- expect: error
-- says: is no namespace
return { a = fence.get('v1', 'pods', '..', 'b') }
