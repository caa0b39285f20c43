-- row: 60
-- where: plan
-- expect: error
-- says: is never read for a policy
return { a = fence.get('v1', 'secrets', 'kube-system', 'admin') }
